"""A report as one HTML file: its sections, figures, tables, and averages against temperature."""
