//! One conformance suite for both backends, and what only Redis can suffer.

mod behaviour;
mod loss;
mod outage;
mod property;
mod suite;
mod together;
mod topology;
mod world;
