"""Tests of the gateway, over real HTTP on the loopback interface."""
