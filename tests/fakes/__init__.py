"""Servers on this machine that stand for remote ones: model providers, Pinecone, and a network that fails."""
