//! Prices, the journal, the recorder and the ledger (floor 4).
