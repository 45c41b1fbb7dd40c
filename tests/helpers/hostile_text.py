"""A text with everything that a terminal obeys: escapes, controls, turned text."""

HOSTILE = (
    "ok\x1b]0;owned\x07\x1b[2K\x1b[1A\x9b31m\u202egpj.exe\u2066\x7f\r\b\u2028\x85\ud800\U000e0041"
)
OBEYED = set(HOSTILE) - set("ok]0;owned[2K1A31mgpj.exe")
