"""Speed, each as a ratio to a named peer or limit measured in the same run. One file = one or more
benches (`BENCHES`).
"""
