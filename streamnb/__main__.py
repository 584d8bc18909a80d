"""``python -m streamnb`` is the command line program."""

import sys

from streamnb.cli import main

sys.exit(main())
