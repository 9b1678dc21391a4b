//! The loops of the binary rows.

use torsh_core::Kernel;

use super::loops::*;
#[allow(unused_imports)]
use crate::scalar::*;
use crate::simd::{Arch, Level};

torsh_core::for_each_binary! { fill_rows }
