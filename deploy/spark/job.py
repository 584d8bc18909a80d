"""What is given to spark-submit: `streamnb.spark`, which has to be installed where it and its workers run."""

import sys

from streamnb.spark.job import main

sys.exit(main())
