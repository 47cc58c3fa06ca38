"""Exam files become questions: the schema, IgakuQA's files, prompts, splits by year and the leakage check."""
