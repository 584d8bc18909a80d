"""Pictures of a classifier, as SVG in HTML: without a library, a script, or an inline style.

Each function gives a `<figure>`, as `Markup`, with a description in words. It fits any width and takes its
colours from `stylesheet()`, for light and dark. All texts are escaped. A page that holds the stylesheet holds
any number of them; in a notebook, `_repr_html_` returns `whole(...)`, which brings it along::

    from streamnb import pictures

    learned = [0, 100, 200]
    accuracy = pictures.Series("accuracy", [0.5, 0.8, 0.9], lower=[0.1, 0.7, 0.85], upper=[0.9, 0.88, 0.94])
    pictures.line("Accuracy", learned, [accuracy], y=pictures.percent, marks=[(150, "drift: ddm")])
    pictures.stacked("Posterior", learned, [pictures.Series("H1", [0.5, 0.2, 0.1]), ...])
    pictures.bars("Class rates", [pictures.Bar("spam", 0.13, lower=0.1, upper=0.15)], text=pictures.percent)
    pictures.bars("Evidence", [pictures.Bar("free", 1.8), pictures.Bar("lunch", -0.4)])   # from the middle
    pictures.heat_map("Confusion", ["ham", "spam"], ["ham", "spam"], [[90, 1], [3, 20]])
    pictures.calibration("Calibration", report.window.reliability)
    pictures.table(["class", "events"], [["ham", 90], ["spam", 23]])

    pictures.tag("p", "Any <text>", class_="note")      # <p class="note">Any &lt;text&gt;</p>
"""

from streamnb.pictures.bars import Bar as Bar
from streamnb.pictures.bars import bars as bars
from streamnb.pictures.bars import calibration as calibration
from streamnb.pictures.bars import heat_map as heat_map
from streamnb.pictures.lines import Series as Series
from streamnb.pictures.lines import line as line
from streamnb.pictures.lines import stacked as stacked
from streamnb.pictures.markup import Markup as Markup
from streamnb.pictures.markup import count as count
from streamnb.pictures.markup import figure as figure
from streamnb.pictures.markup import joined as joined
from streamnb.pictures.markup import number as number
from streamnb.pictures.markup import percent as percent
from streamnb.pictures.markup import stylesheet as stylesheet
from streamnb.pictures.markup import table as table
from streamnb.pictures.markup import tag as tag
from streamnb.pictures.markup import whole as whole
