"""docs/metrics.md is what the code says, and its words about labels are what a page has."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter import docs
from tests.exporter.test_render import full_page

PAGE = Path(docs.__file__).parents[1] / "docs" / "metrics.md"


def test_the_page_is_fresh():
    assert PAGE.read_text() == docs.page(), "run: python -m exporter.docs > docs/metrics.md"


@pytest.mark.parametrize(("family", "label"), docs.VALUES)
def test_the_values_a_label_can_have_are_all_documented(family, label):
    served = {
        sample.labels[label]
        for found in text_string_to_metric_families(full_page())
        for sample in found.samples
        if sample.name == family
    }
    assert served
    assert served <= set(docs.VALUES[family, label])
