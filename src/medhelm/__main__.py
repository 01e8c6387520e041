"""`python -m medhelm`: the same as the command `medhelm`."""

from medhelm.cli import main

if __name__ == "__main__":
    main()
