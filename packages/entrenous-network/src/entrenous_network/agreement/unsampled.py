"""The bound that noise shares prove across a network, where a user may be asked in every round:
epsilon without sampling, in closed form.

A server that asks for answers knows who gave one, so sampling hides nobody from it and does not
count. Two facts count: each message has a length of at most the clip, and each sum has Gaussian
noise of a share from every device in it, which a server that sees masked sums alone cannot
subtract. R such sums are one Gaussian mechanism of mu = sqrt(R) clip / noise (J. Dong, A. Roth, W.
Su, JRSS B 2022, corollary 3.3), whose epsilon is exact: B. Balle, Y.-X. Wang, ICML 2018, theorem 8.
Neighbouring data sets differ in one user's messages, which become zeros. Devices that send no
noise, or work with the server and tell theirs, do not help to hide a user.
"""

from __future__ import annotations

import math

from entrenous.privacy.protection import Protection

# An epsilon beyond which exp overflows; the term that it multiplies only lowers delta.
LARGE = 700.0
HALVINGS = 200


def proven_for_all_rounds(
    protection: Protection, people: int, cohort: float, rounds: int
) -> float | None:
    """The epsilon, at the protection's delta, of a user who is in each of so many masked sums; None
    where nothing is proven.

    people: the fewest in a sum, all of whom add their share of the noise. cohort: the mean number
        of devices in a sum, for which shares are made.
    """
    hidden = protection.secure_sum and protection.noise_by == "devices"
    unknown = hidden and protection.noise_from == "system"
    if not (unknown and protection.clip and protection.noise):
        return None
    # A sum of fewer people than shares are made for has less noise.
    shares = min(1.0, people / (cohort * (1 - protection.lost)))
    multiplier = protection.noise * math.sqrt(shares) / protection.clip
    return epsilon_of_gaussian(multiplier, rounds, protection.delta)


def epsilon_of_gaussian(multiplier: float, rounds: int, delta: float) -> float:
    """The least epsilon at `delta` of so many releases with Gaussian noise of `multiplier` times
    the sensitivity.

    Where one user is exchanged for another, a sum moves twice as far: as much is told as by four
    times as many releases.

    >>> [round(epsilon_of_gaussian(4.0, rounds, 1e-4), 2) for rounds in (20, 4 * 20)]
    [4.35, 10.23]
    """
    if rounds == 0:
        return 0.0
    # R releases are one Gaussian mechanism of mu = sqrt(R) sensitivity / noise.
    mu = math.sqrt(rounds) / multiplier
    # delta falls as epsilon rises; it is below any that a float holds at the upper end.
    low = 0.0
    high = mu * mu / 2 + 50 * mu + 1
    if _delta(mu, low) <= delta:
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _delta(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def multiplier_without_sampling(epsilon: float, rounds: int, delta: float) -> float:
    """The least noise, in units of the clip and to a thousandth of itself, with which so many
    releases prove at most `epsilon` at `delta`.

    >>> noise = multiplier_without_sampling(8.0, 11, 1e-5)
    >>> round(noise, 2), epsilon_of_gaussian(noise, 11, 1e-5) <= 8.0
    (1.99, True)
    """
    low = 0.0
    high = 1.0
    while epsilon_of_gaussian(high, rounds, delta) > epsilon:
        high *= 2
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        if epsilon_of_gaussian(middle, rounds, delta) > epsilon:
            low = middle
        else:
            high = middle
    return high


def _delta(mu: float, epsilon: float) -> float:
    """The delta at an epsilon: Phi(mu / 2 - eps / mu) - exp(eps) Phi(-mu / 2 - eps / mu)."""
    less = 0.0
    if epsilon < LARGE:
        less = math.exp(epsilon) * _phi(-mu / 2 - epsilon / mu)
    return _phi(mu / 2 - epsilon / mu) - less


def _phi(x: float) -> float:
    """The distribution function of the standard normal distribution."""
    return math.erfc(-x / math.sqrt(2)) / 2
