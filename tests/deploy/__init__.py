"""What is under ``deploy/`` agrees with the code."""
