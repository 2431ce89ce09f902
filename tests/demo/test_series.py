"""The record that ships with the package is read as it was published."""

import numpy as np

from keras_pe.demo.series import HORIZON, WINDOW, load_months, make_windows, select


def test_the_record_has_every_month_from_march_1958_to_december_2001() -> None:
    months, values = load_months()
    np.testing.assert_array_equal(months, np.arange("1958-03", "2002-01", dtype="datetime64[M]"))
    assert values.shape == months.shape
    # Figures anybody can look up: 316 ppm in the first spring, 368 to 374 ppm in 2001, a peak every April or May.
    assert 316 < values[0] < 318
    assert 367 < values[-12:].min() < values[-12:].max() < 375
    full_years = values[10:-12].reshape(-1, 12)  # January 1959 to December 2000
    assert np.isin(full_years.argmax(axis=1), [3, 4]).all()


def test_windows_are_changes_up_to_a_month_and_growth_after_it() -> None:
    values = np.arange(100, dtype=float) ** 2
    windows = make_windows(values)
    assert windows.changes.shape == windows.growth.shape == (100 - WINDOW - HORIZON, WINDOW, 1)
    np.testing.assert_array_equal(windows.last, np.arange(WINDOW, 100 - HORIZON))
    for row, last in enumerate(windows.last):
        assert windows.changes[row, -1, 0] == last**2 - (last - 1) ** 2
        assert windows.growth[row, -1, 0] == (last + HORIZON) ** 2 - last**2
    assert select(windows, windows.last > 80).last.tolist() == list(range(81, 100 - HORIZON))
