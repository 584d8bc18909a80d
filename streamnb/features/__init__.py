"""From events to arrays: attributes, tokenizer, vocabulary and batches, as kernels take them.

    event -> EventReader -> EventWriter -> tokenize -> Vocabulary -> Batch

Events flow in as dictionaries or data frames; `encoded_batch.Batch` flows out. A batch has discrete
items (a row of the vocabulary each) and continuous values, event by event.

    module                  content
    attributes.py           `Text`, `Nominal`, `Continuous`: the kind and the smoothing of an attribute
    event_reader.py         which attribute is a text, a nominal value or a number
    event_writer.py         collects attributes; `encoded` makes them arrays
    data_frames.py          the same for a data frame, column by column
    tokenizer.py            runs of word characters of the lower-cased text, as Python's `re` finds them
    vocabulary.py           attribute bytes -> row, exactly, in order of insertion
    feature_layout.py       groups of rows (discrete) and fields (continuous), in order of appearance
    targets.py              labels, weights and times of a batch
    bags.py                 different rows of each attribute, with their frequency
    byte_ngrams.py          n-grams of four bytes, as buckets of a hash
    keyed_hash.py           SipHash with the secret of this process, for places in hash tables
    entity_attribute.py     the attribute that names the entity or tenant of an event

Kinds of attributes:

    declared        by name, as `attributes.py` has it
    undeclared      by the type of the value: a number is continuous; a string or boolean is nominal

Invariants:

* Writing an event changes no table. Rows and groups appear when the batch is encoded for learning.
* Two keys never share a row: a tag only saves comparisons, and bytes decide.
* Rows keep the order of insertion, so equal streams have equal states.
* Nominal values are compared by their text: 3 and 3.0 are equal, True is "true".
* An attribute that is absent, None, NaN or infinite contributes nothing.
* The secret of `keyed_hash` decides places only: it is in no state and in no output.

`features` imports no model. Start reading at `event_reader.py`, then `vocabulary.py`.
"""
