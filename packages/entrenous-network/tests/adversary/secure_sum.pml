/* The secure sum of one round, under a server that tells each party something else. To check it:
   spin -a secure_sum.pml && gcc -O2 -DSAFETY -o pan pan.c && ./pan

   Every order and every choice of the server is tried. Cryptography is perfect: nobody forges a
   signature, and a secret comes out by Q shares of its kind or not at all. Parties 0 to C - 1 tell
   the server all that they know, and sign whatever it likes. What each party checks is what
   privacy/secure_sum/client.py and deploy/secure_node.py check, by the names of these.

   Each check can be left out, and the model then finds the attack (test_model.py):
     -DQ=...          another quorum                              (M1: two lists of survivors)
     -DCLAIM          the header's model is compared, not the download's   (C1)
     -DNO_ROSTER      the models in the adverts are not compared           (A7)
     -DTWICE          a party signs a second list                                              */

#ifndef N
#define N 5                      /* parties */
#endif
#ifndef C
#define C 1                      /* of them in league with the server */
#endif
#ifndef Q
#define Q ((N + C) / 2 + 1)      /* the least with 2 Q > N + C: signatures that bind, and shares that open */
#endif

#define in(list, p) (((list) >> (p)) & 1)
#define ALL ((1 << N) - 1)

/* what the honest parties have said */
byte model[N];                   /* the model that a party signed in its advert */
byte trained[N];                 /* the model that it trained from */
bool shared[N], masked[N];
byte signed_[N];                 /* lists that it signed, as bits: 1, 2 */
byte unmasked[N];                /* lists under which it gave shares, as bits */

/* what the server has */
short list[2];                   /* two lists of survivors, as bits of parties */
byte signatures[2];
byte seeds[N], keys[N];          /* honest parties' shares of each kind that it got, of each party */

byte p, q, k;

/* any number from low to high - 1 into x */
inline any(x, low, high) {
  x = low;
  do
  :: x < high - 1 -> x++
  :: break
  od
}

/* Stage 1: the server announces a model, and the party signs it. */
inline advert(party) { any(model[party], 0, 2) }

/* Stage 2: the roster has everybody's signed advert; a party of another model is seen. Those in league say
   what the server likes, so they are never in the way. */
inline share(party) {
  shared[party] = true;
#ifndef NO_ROSTER
  for (k : C .. N - 1) { shared[party] = shared[party] && model[k] == model[party] }
#endif
}

/* Stage 3: for each neighbour a box, which opens for nobody else, and a party masks whether its boxes open
   or not. A server that changes boxes has fewer shares in the end, and each count below is a most. A download, and a header that says of which model it is. */
inline mask(party) {
  byte claimed, came;
  any(claimed, 0, 2);
  any(came, 0, 2);
#ifdef CLAIM
  masked[party] = shared[party] && claimed == model[party];
#else
  masked[party] = shared[party] && came == model[party];
#endif
  trained[party] = came
}

/* Stage 4: one of the lists; whoever is on it signs it, and never another one. */
inline consent(party) {
  any(k, 0, 2);
  if
#ifdef TWICE
  :: in(list[k], party) && !in(signed_[party], k) ->
#else
  :: in(list[k], party) && signed_[party] == 0 ->
#endif
     signed_[party] = signed_[party] | (1 << k);
     signatures[k]++
  :: else
  fi
}

/* Stage 5: under a list that it signed itself and a quorum has signed, a share of the seed of each on the
   list, and of the mask key of each who is not. */
inline unmask(party) {
  any(k, 0, 2);
  if
  :: in(signed_[party], k) && !in(unmasked[party], k) && signatures[k] + C >= Q ->
     unmasked[party] = unmasked[party] | (1 << k);
     for (q : C .. N - 1) {
       if
       :: in(list[k], q) -> seeds[q]++
       :: else -> keys[q]++
       fi
     }
  :: else
  fi
}

init {
  /* one sum: every honest party in it trained from the same model */
  for (p : C .. N - 1) { atomic { advert(p) } }
  for (p : C .. N - 1) { atomic { share(p) } }
  for (p : C .. N - 1) { atomic { mask(p) } }
  for (p : C + 1 .. N - 1) {
    assert(!masked[p] || !masked[C] || trained[p] == trained[C])
  }
  /* two lists of survivors: one has the first honest party, the other has not, and is any other */
  atomic {
    for (p : C .. N - 1) { model[p] = 0; trained[p] = 0; shared[p] = false; masked[p] = false }
    list[0] = ALL;
    list[1] = ALL - (1 << C);
    if :: skip :: N > 3 -> list[1] = list[1] - (1 << (N - 1)) :: C > 0 -> list[1] = list[1] - 1 fi
  }
  do
  :: atomic { any(p, C, N); consent(p) }
  :: atomic { any(p, C, N); unmask(p) }
  :: break
  od;
  /* shares of both kinds never open one honest party */
  for (p : C .. N - 1) {
    assert(seeds[p] + C < Q || keys[p] + C < Q)
  }
}
