"""The command line as a module: `python -m entrenous` is `entrenous`."""

from .cli import main

if __name__ == "__main__":
    main()
