//! JSON without a tree.
