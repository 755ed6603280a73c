"""Plot a prediction: recorded and predicted distribution of latency, and its bound."""

from __future__ import annotations

from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.reports.numbers import counted
from roslens.analysis.what_if.prediction import CURVE, Curve, Prediction
from roslens.recording.arrays import np


@style.styled
def prediction_plot(prediction: Prediction, curve: Curve, bound_ns: float | None = None) -> Plot:
    """Plot recorded and predicted latency of one subscription, or of all together.

    Parameters
    ----------
    curve
        One of the prediction's curves.
    bound_ns
        Bound of its callback from publish to callback_end, ns; None: there is no bound.
    """
    figure = style.new_figure(3.8)
    axes = figure.subplots()
    levels = np.array(CURVE)
    axes.plot(np.array(curve.recorded) / 1e6, levels, color=style.colour(0), label="recorded")
    subject = f"{curve.topic} at {curve.node}" if curve.topic else "all subscriptions"
    caption = f"Latency of {subject}, from the first publish event to callback_start"
    if len(curve.value):
        low, high, value = (
            np.array(latencies) / 1e6 for latencies in (curve.low, curve.high, curve.value)
        )
        axes.fill_betweenx(levels, low, high, color=style.colour(1), alpha=0.25, lw=0)
        axes.plot(value, levels, color=style.colour(1), label="predicted")
        caption += (
            f". Predicted: {prediction.changes.in_words()}. "
            f"Band: {prediction.level:.0%} of simulated runs as long as the recorded ones, "
            "and with changes the model's error"
        )
    else:
        whys = (
            figure.refused
            for figure in prediction.figures
            if (figure.topic, figure.node) == (curve.topic, curve.node) and figure.refused
        )
        caption += f". No prediction: {next(whys, prediction.refused)}"
    if bound_ns is not None:
        label = "bound of publish to callback_end, as recorded"
        axes.axvline(bound_ns / 1e6, color="black", ls="--", lw=1, label=label)
    axes.set(xlabel="latency [ms]", ylabel="part of the messages")
    axes.set(xscale="log", ylim=(0, 1))
    style.plain_numbers(axes)
    style.legend_above(figure)
    return Plot(figure, f"{caption}. {counted(len(prediction.runs), 'run')}.")
