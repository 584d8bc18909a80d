"""Charts of a classifier as SVG in HTML, without a library, a script, or an inline style.

Each function returns a `<figure>`, as `Markup`, that describes its content in words, fits any width,
and takes its colours from `stylesheet()`, for light and dark. All texts are escaped. A page that holds
the stylesheet may hold any number of figures. In a notebook, `_repr_html_` returns `whole(...)`, which
includes the stylesheet::

    from streamnb import charts

    learned = [0, 100, 200]
    accuracy = charts.Series("accuracy", [0.5, 0.8, 0.9], lower=[0.1, 0.7, 0.8], upper=[0.9, 0.9, 0.95])
    charts.line("Accuracy", learned, [accuracy], y=charts.percent, marks=[charts.Mark(150, "drift: ddm")])
    charts.stacked("Posterior", learned, [charts.Series("H1", [0.5, 0.2, 0.1]), ...])
    charts.bars("Class rates", [charts.Bar("spam", 0.13, lower=0.1, upper=0.15)], text=charts.percent)
    charts.bars("Attribution", [charts.Bar("free", 1.8), charts.Bar("lunch", -0.4)])   # from the middle
    charts.heat_map("Confusion", ["ham", "spam"], ["ham", "spam"], [[90, 1], [3, 20]])
    charts.calibration("Calibration", report.window.reliability)
    charts.curves("ROC", [charts.ShareCurve("spam", [0, .1, 1], [0, .9, 1])], x="false alarms", y="caught")
    charts.table(["class", "events"], [["ham", 90], ["spam", 23]])

    charts.tag("p", "Any <text>", class_="note")      # <p class="note">Any &lt;text&gt;</p>
"""

from streamnb.charts.bar_charts import Bar as Bar
from streamnb.charts.bar_charts import bars as bars
from streamnb.charts.bar_charts import heat_map as heat_map
from streamnb.charts.bar_charts import spark as spark
from streamnb.charts.chart_axis import BY_NUMBER as BY_NUMBER
from streamnb.charts.chart_axis import Axis as Axis
from streamnb.charts.chart_axis import Mark as Mark
from streamnb.charts.chart_axis import time_axis as time_axis
from streamnb.charts.html_markup import Figures as Figures
from streamnb.charts.html_markup import Markup as Markup
from streamnb.charts.html_markup import count as count
from streamnb.charts.html_markup import figure as figure
from streamnb.charts.html_markup import joined as joined
from streamnb.charts.html_markup import number as number
from streamnb.charts.html_markup import percent as percent
from streamnb.charts.html_markup import stylesheet as stylesheet
from streamnb.charts.html_markup import table as table
from streamnb.charts.html_markup import tag as tag
from streamnb.charts.html_markup import whole as whole
from streamnb.charts.line_charts import Series as Series
from streamnb.charts.line_charts import line as line
from streamnb.charts.line_charts import stacked as stacked
from streamnb.charts.square_charts import ShareCurve as ShareCurve
from streamnb.charts.square_charts import calibration as calibration
from streamnb.charts.square_charts import curves as curves
