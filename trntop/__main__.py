import sys

from trntop.cli import main

sys.exit(main())
