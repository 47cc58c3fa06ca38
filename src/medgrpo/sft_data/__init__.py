"""SFT data for CHORD from exam questions: a question that a person would ask, and a medical text that answers it."""
