"""`python -m medgrpo.cli`."""

from medgrpo.cli import main

raise SystemExit(main())
