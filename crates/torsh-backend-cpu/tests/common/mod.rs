//! Hand-made operands for kernel tests.
#![allow(dead_code)]

use torsh_backend_cpu::kernel;
use torsh_core::attrs::NONE;
use torsh_core::{Attributes, DType, Kernel, KernelArgs, Result, Scalar, View};

/// A strided operand in memory of its own.
#[derive(Clone)]
pub struct Array {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub strides: Vec<isize>,
    pub offset: usize,
    pub data: Vec<u128>,
}

/// The indices of a shape in row-major order.
pub fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let n: usize = shape.iter().product();
    (0..n)
        .map(|mut i| {
            let mut index = vec![0; shape.len()];
            for d in (0..shape.len()).rev() {
                index[d] = i % shape[d];
                i /= shape[d];
            }
            index
        })
        .collect()
}

pub fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for d in (0..shape.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * shape[d + 1].max(1) as isize;
    }
    strides
}

impl Array {
    /// Memory filled with a pattern, under the given layout.
    pub fn with_layout(dtype: DType, shape: &[usize], strides: &[isize], offset: usize) -> Array {
        let last: isize = shape
            .iter()
            .zip(strides)
            .map(|(&n, &s)| (n.max(1) as isize - 1) * s)
            .sum();
        let bytes = (offset + last as usize + 1) * dtype.size();
        let data = vec![0x5a5a_5a5a_5a5a_5a5a_u128; bytes.div_ceil(16)];
        let mut a = Array {
            dtype,
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            offset,
            data,
        };
        if dtype == DType::Bool {
            a.bytes_mut().fill(0);
        }
        a
    }

    pub fn empty(dtype: DType, shape: &[usize]) -> Array {
        Array::with_layout(dtype, shape, &row_major(shape), 0)
    }

    /// Row-major with these values.
    pub fn new(dtype: DType, shape: &[usize], f: impl Fn(usize) -> Scalar) -> Array {
        Array::empty(dtype, shape).filled(f)
    }

    pub fn floats(dtype: DType, values: &[f64]) -> Array {
        Array::new(dtype, &[values.len()], |i| Scalar::Float(values[i]))
    }

    pub fn ints(dtype: DType, values: &[i64]) -> Array {
        Array::new(dtype, &[values.len()], |i| Scalar::Int(values[i]))
    }

    /// Sets the elements in row-major order of their indices.
    pub fn filled(mut self, f: impl Fn(usize) -> Scalar) -> Array {
        for (i, index) in indices(&self.shape.clone()).iter().enumerate() {
            self.set(index, f(i));
        }
        self
    }

    fn at(&self, index: &[usize]) -> usize {
        let step: isize = index
            .iter()
            .zip(&self.strides)
            .map(|(&i, &s)| i as isize * s)
            .sum();
        (self.offset + step as usize) * self.dtype.size()
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: any bytes are u8.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr() as *const u8, self.data.len() * 16) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: any bytes are u8, and any u8 make a u128.
        unsafe {
            std::slice::from_raw_parts_mut(self.data.as_mut_ptr() as *mut u8, self.data.len() * 16)
        }
    }

    pub fn get(&self, index: &[usize]) -> Scalar {
        let at = self.at(index);
        Scalar::from_bytes(&self.bytes()[at..], self.dtype)
    }

    pub fn set(&mut self, index: &[usize], v: Scalar) {
        let (at, size) = (self.at(index), self.dtype.size());
        let bytes = v.to_bytes(self.dtype);
        self.bytes_mut()[at..at + size].copy_from_slice(&bytes[..size]);
    }

    /// The element for an index of a shape this one broadcasts to.
    pub fn get_broadcast(&self, index: &[usize]) -> Scalar {
        let own: Vec<usize> = index[index.len() - self.shape.len()..]
            .iter()
            .zip(&self.shape)
            .map(|(&i, &n)| if n == 1 { 0 } else { i })
            .collect();
        self.get(&own)
    }

    pub fn scalars(&self) -> Vec<Scalar> {
        indices(&self.shape).iter().map(|i| self.get(i)).collect()
    }

    pub fn to_f64(&self) -> Vec<f64> {
        self.scalars().iter().map(|s| s.to_f64()).collect()
    }

    pub fn to_i64(&self) -> Vec<i64> {
        self.scalars().iter().map(|s| s.to_i64()).collect()
    }

    pub fn view(&self) -> View<'_> {
        // SAFETY: the buffers of the test outlive the call.
        unsafe {
            View::new(
                (self.data.as_ptr() as *mut u8).wrapping_add(self.offset * self.dtype.size()),
                self.dtype,
                &self.shape,
                &self.strides,
            )
        }
    }

    pub fn view_mut(&mut self) -> View<'_> {
        // SAFETY: the buffers of the test outlive the call.
        unsafe {
            View::new(
                (self.data.as_mut_ptr() as *mut u8).wrapping_add(self.offset * self.dtype.size()),
                self.dtype,
                &self.shape,
                &self.strides,
            )
        }
    }
}

/// Runs a kernel on these operands.
pub fn call(
    k: Kernel,
    compute: DType,
    out: &mut Array,
    ins: &[&Array],
    attrs: &dyn Attributes,
) -> Result<()> {
    let f = kernel(k).expect("the kernel is in the table");
    let inputs: Vec<View<'_>> = ins.iter().map(|a| a.view()).collect();
    let outputs = [out.view_mut()];
    // SAFETY: the views are of the test's buffers, as the kernel asks.
    f(&unsafe { KernelArgs::new(k, compute, &outputs, &inputs, attrs) })
}

/// The same kernel with the output in the memory of the first operand.
pub fn call_in_place(k: Kernel, compute: DType, x: &mut Array, ins: &[&Array]) -> Result<()> {
    let f = kernel(k).expect("the kernel is in the table");
    let own = x.view_mut();
    let mut inputs = vec![own];
    inputs.extend(ins.iter().map(|a| a.view()));
    let own = [own];
    // SAFETY: the views are of the test's buffers, as the kernel asks.
    f(&unsafe { KernelArgs::new(k, compute, &own, &inputs, NONE) })
}

/// A generator of small test values.
pub struct Lcg(pub u64);

impl Lcg {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }

    /// A layout of `shape`: permuted, with gaps, sliced; broadcast where `broadcast` allows it.
    /// Gives shape (1 where broadcast by shape), strides and offset.
    pub fn layout(&mut self, shape: &[usize], broadcast: bool) -> (Vec<usize>, Vec<isize>, usize) {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i + 1));
        }
        if self.below(2) == 0 {
            order = (0..shape.len()).rev().collect();
        }
        let mut strides = vec![0; shape.len()];
        let mut own = shape.to_vec();
        let mut step = 1 + isize::from(self.below(4) == 0);
        for d in order {
            strides[d] = step;
            step *= (shape[d] + usize::from(self.below(3) == 0)) as isize;
            if broadcast && self.below(4) == 0 {
                strides[d] = 0;
                if self.below(2) == 0 {
                    own[d] = 1;
                }
            }
        }
        let cut = if broadcast {
            own.iter()
                .take_while(|&&n| n == 1)
                .count()
                .min(self.below(3))
        } else {
            0
        };
        (own[cut..].to_vec(), strides[cut..].to_vec(), self.below(3))
    }
}
