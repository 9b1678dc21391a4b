//! What the documents say, compared with the tree: paths and links, crates and their layers, features, environment
//! variables, commands, blocks of code, rules that count something, numbers that stand in the sources too, and the form of
//! the overview.

mod architecture;
mod blocks;
mod commands;
mod crates;
mod facts;
mod paths;
mod rules;
mod tree;
mod variables;
