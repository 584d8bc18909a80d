"""``python -m streamnb.spark``, or what is given to spark-submit."""

import sys

from streamnb.spark.job import main

sys.exit(main())
