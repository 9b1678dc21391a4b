//! The loops of the binary rows.

use torsh_core::Kernel;

use super::loops::*;
use crate::arch::{Arch, Level};
#[allow(unused_imports)]
use crate::scalar::*;

torsh_core::for_each_binary! { fill_rows }
