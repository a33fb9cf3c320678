"""Facts: one frozen struct per fact, stored, judged, shown and reported as the same one. Times are absolute."""
