"""Tests of the room that moves items: from storage to storage, from elsewhere, from model to model."""
