"""From events to arrays: the tokenizer, the vocabulary, batches of events, data frames."""
