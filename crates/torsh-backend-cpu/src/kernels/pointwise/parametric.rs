//! The loops of the parametric rows.

use torsh_core::Kernel;

use super::loops::*;
#[allow(unused_imports)]
use crate::scalar::*;
use crate::simd::{Arch, Level};

torsh_core::for_each_parametric! { fill_rows }
