#include "text/text_metrics.h"

METRICS_DEFINE(text_metrics, TEXT_METRICS)
