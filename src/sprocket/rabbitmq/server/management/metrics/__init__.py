"""Metrics for Prometheus, under the names of rabbitmq_prometheus.

`families` is the table of what there is; `runtime.http` reads it as sums or as series, as text.
`scrape` answers: sums over all objects, a series for each object, or some groups of those.

Source: `prometheus_rabbitmq_core_metrics_collector`, `rabbit_prometheus_handler` of 3.10.8.
"""

from sprocket.rabbitmq.server.management.metrics.scrape import Metrics, Scrape

__all__ = ["Metrics", "Scrape"]
