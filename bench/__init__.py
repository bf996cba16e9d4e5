"""Speed, as ratios to a yardstick in the same run, interleaved with it. `make bench`."""
