//! The loops of the unary rows.

use torsh_core::Kernel;

use super::loops::*;
#[allow(unused_imports)]
use crate::scalar::*;
use crate::simd::{Arch, Level};

torsh_core::for_each_unary! { fill_rows }
