"""Secure sums: a server learns the total of what its clients send and nothing about any one of
them.

K. Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS
2017. Every pair of clients agrees on a mask that one adds and the other subtracts; every client
adds one more mask alone. Shares of both masks' secrets lie with all, who give the server one kind
for each party: shares of the lone mask of a party that sent its vector, shares of the pairs' masks
of a party that did not.

    client                          server
    advertise()                  -> add(ADVERT)      signed x25519 keys, one for boxes and one for
                                                     masks; the model's sha256
    share(roster)                <- roster()
                                 -> add(SHARES)      Shamir shares of both secrets, boxed for each
                                                     other client
    mask(inbox, vector, rows)    <- inbox(name)
                                 -> add(MASKED)      the vector with all masks on it
    consent(survivors)           <- survivors()
                                 -> add(CONSENT)     a signature under the list of parties that
                                                     sent their vector
    unmask(consents)             <- consents()
                                 -> add(UNMASKING)   one share of each client
                                    total()          int64, exact

No input or output: every method takes and gives bytes, and any transport carries them.

Why not Flower's: (a) its mask generator folds a 32-byte secret into the 32 bits of
`np.random.RandomState`, so that all masks are found by trying 2^32 seeds (flwrlabs/flower issue
7522, open; verified in 1.41 and 1.42); (b) it exists in the legacy layer alone (`LegacyContext`,
`DefaultWorkflow`), not for message-based apps; (c) clients take each other's keys from the server
unsigned, so that a server which swaps keys reads everything. Here masks are AES-256-CTR keyed by
HKDF-SHA256, keys are signed by identities known beforehand, and the floors (how many must take
part, how full a row is, which model, one sum a round, one kind of share) are enforced by the
client.

What it promises, with at most a tenth of the parties in league with the server (rounded up, as in
`quorum.py`): only sums over the floor's people come out, those in league among them. A
client reveals shares only under a list of survivors that a quorum q has signed, with
2 q > parties + those in league. So there is one list. Each message is signed over the transcript so
far: the terms with floors and noise, all signed keys, the model, and the list of sharers.

A revealed share is compared with the hash that its owner signed, and a wrong one is left out: it
costs nothing while enough right ones come. A holder whose box did not open reveals zeros. A party
that has to do with more wrong shares than those in league could bring about is named as the liar.

What it does not promise: that a few wrong shares name somebody at once (`doubts` counts them over
the sums of a server). A member can send a false vector,
which spoils the sum and names nobody. The total says what a total says.
"""
