"""The first create of a data folder makes the base image and shows how far it is."""
import pytest


def test_the_operation_shows_progress(local):
    if local.image_was_there:
        pytest.skip("the base image was there already; remove the test data folder to make it anew")
    details = local.first_create_details
    assert any("making base image" in d for d in details), details
    assert len(details) > 2, "the steps follow each other"
