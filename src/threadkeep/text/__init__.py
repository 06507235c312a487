"""Text: every rule about language.

Tokenizing, languages, sentences, statements about a person, what they are about, dates, and redaction. The modules
import nothing but each other and the standard library (Snowball stemming aside), and do no I/O.
"""
