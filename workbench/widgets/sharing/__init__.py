"""A run as one HTML file that any browser opens offline: its charts, its best rollout, its card, its configuration."""
