"""Line-API widgets: values in by reactives, messages out."""
