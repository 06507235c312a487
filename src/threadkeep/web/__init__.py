"""The web page: chat beside what was remembered. The page is built from ``web/`` into ``assets/``."""
