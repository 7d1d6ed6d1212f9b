"""Reports: pure functions from a trace to plain data, figures and files; nothing here simulates."""
