//! The loops of the parametric rows.

use torsh_core::Kernel;

use super::loops::*;
use crate::arch::{Arch, Level};
#[allow(unused_imports)]
use crate::scalar::*;

torsh_core::for_each_parametric! { fill_rows }
