//! Sparse tensors by their parts: the layout's facts, index tensors and values, as plain data that does not depend on
//! ToRSh's own types.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::case::{Reference, TensorRef, tensor_ref};
use crate::tensors::{Dtype, Element, TensorData};

/// A sparse layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Coo,
    Csr,
    Csc,
    Bsr,
    Bsc,
}

impl Kind {
    /// Every one.
    pub const ALL: [Kind; 5] = [Kind::Coo, Kind::Csr, Kind::Csc, Kind::Bsr, Kind::Bsc];

    /// As the cases name it: `coo`, `csr`, ..
    pub fn name(self) -> &'static str {
        match self {
            Kind::Coo => "coo",
            Kind::Csr => "csr",
            Kind::Csc => "csc",
            Kind::Bsr => "bsr",
            Kind::Bsc => "bsc",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| k.name() == name)
    }

    /// Whether elements are stored in blocks.
    pub fn is_blocked(self) -> bool {
        matches!(self, Kind::Bsr | Kind::Bsc)
    }

    /// Whether the compressed dimension is the rows.
    pub fn by_rows(self) -> bool {
        matches!(self, Kind::Csr | Kind::Bsr)
    }
}

/// A sparse tensor whose parts are each a `T`: a reference, data, or memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<T = TensorData> {
    /// The layout.
    pub kind: Kind,
    /// The sizes of the whole.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: Dtype,
    /// How many dimensions of each element are dense.
    pub dense_dim: usize,
    /// Of COO: that its indices are sorted, each once. True for the others.
    pub coalesced: bool,
    /// COO: the indices. The others: the compressed and the plain ones.
    pub indices: Vec<T>,
    /// The stored elements.
    pub values: T,
    /// Whether its gradient may be asked for.
    pub requires_grad: bool,
}

impl<T> Parts<T> {
    /// The same with other parts, the indices first.
    ///
    /// # Errors
    /// The first error of `f`.
    pub fn try_map<U, E>(&self, mut f: impl FnMut(&T) -> Result<U, E>) -> Result<Parts<U>, E> {
        Ok(Parts {
            kind: self.kind,
            shape: self.shape.clone(),
            dtype: self.dtype,
            dense_dim: self.dense_dim,
            coalesced: self.coalesced,
            indices: self.indices.iter().map(&mut f).collect::<Result<_, E>>()?,
            values: f(&self.values)?,
            requires_grad: self.requires_grad,
        })
    }
}

/// A tensor of any layout.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<T = TensorData> {
    /// A strided one.
    Strided(T),
    /// A sparse one.
    Sparse(Box<Parts<T>>),
}

impl<T> Operand<T> {
    /// The same with other parts.
    ///
    /// # Errors
    /// The first error of `f`.
    pub fn try_map<U, E>(&self, mut f: impl FnMut(&T) -> Result<U, E>) -> Result<Operand<U>, E> {
        Ok(match self {
            Operand::Strided(t) => Operand::Strided(f(t)?),
            Operand::Sparse(parts) => Operand::Sparse(Box::new(parts.try_map(f)?)),
        })
    }

    /// The layout's name.
    pub fn layout(&self) -> &'static str {
        match self {
            Operand::Strided(_) => "strided",
            Operand::Sparse(parts) => parts.kind.name(),
        }
    }
}

impl Operand {
    /// Element type and sizes.
    pub fn dtype_and_shape(&self) -> (Dtype, &[usize]) {
        match self {
            Operand::Strided(data) => (data.dtype, &data.shape),
            Operand::Sparse(parts) => (parts.dtype, &parts.shape),
        }
    }
}

impl Operand<TensorRef> {
    /// Whether its gradient is asked for.
    pub fn requires_grad(&self) -> bool {
        match self {
            Operand::Strided(t) => t.requires_grad,
            Operand::Sparse(parts) => parts.requires_grad,
        }
    }
}

impl Reference for Operand<TensorRef> {
    fn is_tensor(json: &Json) -> bool {
        json.get("tensor").is_some() || json.get("sparse").is_some_and(Json::is_string)
    }

    fn read(json: &Json) -> Result<Operand<TensorRef>, String> {
        if json.get("tensor").is_some() {
            return tensor_ref(json).map(Operand::Strided);
        }
        let bad = || format!("not a sparse tensor: {json}");
        let kind = json["sparse"].as_str().and_then(Kind::from_name);
        let kind = kind.ok_or_else(bad)?;
        let size = |n: &Json| n.as_u64().map(|n| n as usize).ok_or_else(bad);
        let shape = json["shape"].as_array().ok_or_else(bad)?;
        let dtype = json["dtype"].as_str().ok_or_else(bad)?;
        let indices = match kind {
            Kind::Coo => &["indices"][..],
            _ => &["compressed", "plain"],
        };
        let coalesced = match kind {
            Kind::Coo => json["coalesced"].as_bool().ok_or_else(bad)?,
            _ => true,
        };
        Ok(Operand::Sparse(Box::new(Parts {
            kind,
            shape: shape.iter().map(size).collect::<Result<_, _>>()?,
            dtype: Dtype::from_name(dtype).ok_or_else(|| format!("unknown dtype {dtype}"))?,
            dense_dim: size(&json["dense_dim"])?,
            coalesced,
            indices: indices
                .iter()
                .map(|part| tensor_ref(&json[*part]))
                .collect::<Result<_, _>>()?,
            values: tensor_ref(&json["values"])?,
            requires_grad: json["requires_grad"].as_bool().unwrap_or(false),
        })))
    }

    fn dtype(&self) -> Dtype {
        match self {
            Operand::Strided(t) => t.dtype,
            Operand::Sparse(parts) => parts.dtype,
        }
    }

    fn told(&self) -> String {
        match self {
            Operand::Strided(t) => t.told(),
            Operand::Sparse(p) => format!("{} {}{:?}", p.kind.name(), p.dtype, p.shape),
        }
    }
}

impl Parts {
    /// The row-major position in the whole tensor of every element of the values, in their order.
    ///
    /// # Errors
    /// Parts whose shapes do not belong together, and indices out of bounds.
    pub fn places(&self) -> Result<Vec<usize>, String> {
        let places = match self.kind {
            Kind::Coo => self.places_of_coo()?,
            _ => self.places_of_compressed()?,
        };
        match places.len() == self.values.numel() {
            true => Ok(places),
            false => Err(format!(
                "{} values where the indices tell {}",
                self.values.numel(),
                places.len()
            )),
        }
    }

    fn places_of_coo(&self) -> Result<Vec<usize>, String> {
        let (sparse, dense) = self.split()?;
        let wide: usize = dense.iter().product();
        let mut places = Vec::with_capacity(self.values.numel());
        for entry in self.entries()? {
            let mut at = 0;
            for (&i, &n) in entry.iter().zip(sparse) {
                at = at * n + within(i, n)?;
            }
            places.extend((0..wide).map(|k| at * wide + k));
        }
        Ok(places)
    }

    fn places_of_compressed(&self) -> Result<Vec<usize>, String> {
        let [compressed, plain] = &self.indices[..] else {
            return Err("a compressed tensor without two index tensors".to_string());
        };
        let (outer, dense) = self.split()?;
        let (Some((&entries, batch)), [.., rows, columns]) = (plain.shape.split_last(), outer)
        else {
            return Err("a compressed tensor of fewer than two dimensions".to_string());
        };
        let block = match self.kind.is_blocked() {
            true => self.values.shape.get(batch.len() + 1..batch.len() + 3),
            false => Some(&[1, 1][..]),
        };
        let Some(&[tall, broad]) = block else {
            return Err("blocks without sizes".to_string());
        };
        let wide: usize = dense.iter().product();
        let lines = match self.kind.by_rows() {
            true => rows / tall.max(1),
            false => columns / broad.max(1),
        };
        let batches: usize = batch.iter().product();
        if compressed.numel() != batches * (lines + 1) {
            return Err(format!(
                "compressed indices of shape {:?}",
                compressed.shape
            ));
        }
        let mut places = Vec::with_capacity(self.values.numel());
        for b in 0..batches {
            for line in 0..lines {
                let end =
                    |at: usize| within(integer(compressed, b * (lines + 1) + at)?, entries + 1);
                for k in end(line)?..end(line + 1)? {
                    let other = integer(plain, b * entries + k)?;
                    let (row, column) = match self.kind.by_rows() {
                        true => (line, within(other, columns / broad.max(1))?),
                        false => (within(other, rows / tall.max(1))?, line),
                    };
                    for u in 0..tall {
                        for v in 0..broad {
                            let row = b * rows + row * tall + u;
                            let at = row * columns + column * broad + v;
                            places.extend((0..wide).map(|k| at * wide + k));
                        }
                    }
                }
            }
        }
        Ok(places)
    }

    /// The sizes of the sparse (and batch) dimensions, and those of the dense ones.
    fn split(&self) -> Result<(&[usize], &[usize]), String> {
        let outer = self.shape.len().checked_sub(self.dense_dim);
        let outer = outer.ok_or("more dense dimensions than there are")?;
        Ok(self.shape.split_at(outer))
    }

    /// The index of each stored element of a COO tensor.
    fn entries(&self) -> Result<Vec<Vec<i64>>, String> {
        let [indices] = &self.indices[..] else {
            return Err("a COO tensor without one index tensor".to_string());
        };
        let &[dimensions, entries] = &indices.shape[..] else {
            return Err(format!("indices of shape {:?}", indices.shape));
        };
        if dimensions != self.split()?.0.len() {
            return Err(format!("indices of {dimensions} sparse dimensions"));
        }
        let entry = |e| {
            (0..dimensions)
                .map(|d| integer(indices, d * entries + e))
                .collect()
        };
        (0..entries).map(entry).collect()
    }

    /// A COO tensor with the sum of equal indices' elements, sorted: indices, and values.
    ///
    /// # Errors
    /// Parts that do not belong together, and indices out of bounds.
    pub fn summed(&self) -> Result<(Vec<Vec<i64>>, TensorData), String> {
        self.places()?;
        let entries = self.entries()?;
        let wide = self.values.numel() / entries.len().max(1);
        let mut sums: BTreeMap<Vec<i64>, Vec<Element>> = BTreeMap::new();
        for (e, entry) in entries.into_iter().enumerate() {
            let added = (0..wide).map(|k| self.values.get(e * wide + k));
            match sums.get_mut(&entry) {
                Some(sum) => sum
                    .iter_mut()
                    .zip(added)
                    .for_each(|(s, a)| *s = sum_of(*s, a)),
                None => {
                    sums.insert(entry, added.collect());
                }
            }
        }
        let mut shape = self.values.shape.clone();
        match shape.first_mut() {
            Some(n) => *n = sums.len(),
            None => return Err("values without a dimension".to_string()),
        }
        let elements: Vec<_> = sums.values().flatten().copied().collect();
        let values = TensorData::from_elements(self.values.dtype, &shape, &elements);
        Ok((sums.into_keys().collect(), values))
    }

    /// What is wrong with a tensor that says it is coalesced.
    ///
    /// # Errors
    /// The first index that is not after the one before it.
    pub fn check_order(&self) -> Result<(), String> {
        if self.kind != Kind::Coo || !self.coalesced {
            return Ok(());
        }
        let entries = self.entries()?;
        match entries.windows(2).find(|w| w[0] >= w[1]) {
            None => Ok(()),
            Some(w) => Err(format!(
                "it says that it is coalesced, and {:?} comes before {:?}",
                w[0], w[1]
            )),
        }
    }

    /// The elements of a strided tensor of the same shape at the stored ones, in the order and shape of the values.
    ///
    /// # Errors
    /// Parts that do not belong together.
    pub fn taken_from(&self, dense: &TensorData) -> Result<TensorData, String> {
        let size = dense.dtype.size();
        let places = self.places()?;
        let bytes = places
            .iter()
            .flat_map(|at| dense.bytes[at * size..(at + 1) * size].iter().copied());
        Ok(TensorData {
            dtype: dense.dtype,
            shape: self.values.shape.clone(),
            bytes: bytes.collect(),
        })
    }

    /// The tensor with every element.
    ///
    /// # Errors
    /// Parts that do not belong together.
    pub fn dense(&self) -> Result<TensorData, String> {
        let zero = match self.values.dtype {
            Dtype::Bool => Element::Bool(false),
            d if d.is_complex() => Element::Complex(0.0, 0.0),
            d if d.is_inexact() => Element::Float(0.0),
            _ => Element::Int(0),
        };
        let mut elements = vec![zero; self.shape.iter().product()];
        for (i, at) in self.places()?.into_iter().enumerate() {
            elements[at] = sum_of(elements[at], self.values.get(i));
        }
        Ok(TensorData::from_elements(
            self.values.dtype,
            &self.shape,
            &elements,
        ))
    }
}

fn sum_of(a: Element, b: Element) -> Element {
    match (a, b) {
        (Element::Bool(a), Element::Bool(b)) => Element::Bool(a || b),
        (Element::Int(a), Element::Int(b)) => Element::Int(a.wrapping_add(b)),
        (Element::Float(a), Element::Float(b)) => Element::Float(a + b),
        (Element::Complex(a, ai), Element::Complex(b, bi)) => Element::Complex(a + b, ai + bi),
        // Elements of one tensor are of one kind.
        (a, _) => a,
    }
}

fn integer(data: &TensorData, at: usize) -> Result<i64, String> {
    match data.get(at) {
        Element::Int(i) => Ok(i),
        other => Err(format!("an index of {other}")),
    }
}

fn within(i: i64, n: usize) -> Result<usize, String> {
    let i = usize::try_from(i).ok().filter(|&i| i < n);
    i.ok_or_else(|| format!("an index out of bounds for a size of {n}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ints(shape: &[usize], v: &[i64]) -> TensorData {
        let e: Vec<_> = v.iter().map(|&i| Element::Int(i)).collect();
        TensorData::from_elements(Dtype::Int64, shape, &e)
    }

    fn parts(
        kind: Kind,
        shape: &[usize],
        dense_dim: usize,
        indices: Vec<TensorData>,
        values: TensorData,
    ) -> Parts {
        Parts {
            kind,
            shape: shape.to_vec(),
            dtype: values.dtype,
            dense_dim,
            coalesced: kind != Kind::Coo,
            indices,
            values,
            requires_grad: false,
        }
    }

    #[test]
    fn every_layout_has_its_places() {
        let whole = [0, 1, 0, 2, 3, 0];
        let of = |kind, shape: &[usize], indices, values| {
            let p = parts(kind, shape, 0, indices, values);
            let dense = p.dense().unwrap();
            assert_eq!(p.taken_from(&dense).unwrap(), p.values);
            dense
        };
        let dense = ints(&[2, 3], &whole);
        let v = |v: &[i64]| ints(&[v.len()], v);
        let coo = ints(&[2, 3], &[0, 1, 1, 1, 0, 1]);
        assert_eq!(of(Kind::Coo, &[2, 3], vec![coo], v(&[1, 2, 3])), dense);
        let csr = vec![v(&[0, 1, 3]), v(&[1, 0, 1])];
        assert_eq!(of(Kind::Csr, &[2, 3], csr, v(&[1, 2, 3])), dense);
        let csc = vec![v(&[0, 1, 3, 3]), v(&[1, 0, 1])];
        assert_eq!(of(Kind::Csc, &[2, 3], csc, v(&[2, 1, 3])), dense);
        let bsr = vec![v(&[0, 2]), v(&[0, 2])];
        let blocks = ints(&[2, 2, 1], &[0, 2, 0, 0]);
        assert_eq!(
            of(Kind::Bsr, &[2, 3], bsr, blocks),
            ints(&[2, 3], &[0, 0, 0, 2, 0, 0])
        );
        let bsc = vec![v(&[0, 0, 1]), v(&[1])];
        let blocks = ints(&[1, 1, 2], &[5, 6]);
        assert_eq!(
            of(Kind::Bsc, &[2, 4], bsc, blocks),
            ints(&[2, 4], &[0, 0, 0, 0, 0, 0, 5, 6])
        );
        let batch = vec![ints(&[2, 2], &[0, 1, 0, 1]), ints(&[2, 1], &[1, 0])];
        assert_eq!(
            of(Kind::Csr, &[2, 1, 2], batch, ints(&[2, 1], &[7, 8])),
            ints(&[2, 1, 2], &[0, 7, 8, 0])
        );
    }

    #[test]
    fn dense_dimensions_and_duplicates_are_summed() {
        let p = parts(
            Kind::Coo,
            &[3, 2],
            1,
            vec![ints(&[1, 3], &[2, 0, 2])],
            ints(&[3, 2], &[1, 2, 3, 4, 5, 6]),
        );
        let (indices, values) = p.summed().unwrap();
        assert_eq!(indices, [[0], [2]]);
        assert_eq!(values, ints(&[2, 2], &[3, 4, 6, 8]));
        assert_eq!(p.dense().unwrap(), ints(&[3, 2], &[3, 4, 0, 0, 6, 8]));
        let said = Parts {
            coalesced: true,
            ..p
        };
        assert!(
            said.check_order()
                .unwrap_err()
                .contains("[2] comes before [0]")
        );
    }

    #[test]
    fn parts_that_do_not_belong_together_are_told() {
        let of = |indices: Vec<TensorData>, n: i64| {
            let values = ints(&[n as usize], &(0..n).collect::<Vec<_>>());
            parts(Kind::Csr, &[2, 3], 0, indices, values).places()
        };
        let v = |v: &[i64]| ints(&[v.len()], v);
        assert!(of(vec![v(&[0, 1, 2]), v(&[0, 2])], 2).is_ok());
        for (indices, n) in [
            (vec![v(&[0, 1, 2]), v(&[0, 3])], 2),
            (vec![v(&[0, 1, 3]), v(&[0, 1])], 2),
            (vec![v(&[0, 2]), v(&[0, 1])], 2),
            (vec![v(&[0, 1, 2]), v(&[0, 2])], 3),
            (vec![v(&[0])], 1),
        ] {
            assert!(of(indices.clone(), n).is_err(), "{indices:?}");
        }
    }

    #[test]
    fn both_kinds_of_tensors_are_read() {
        let index = json!({"tensor": "i", "shape": [2, 4], "dtype": "int64"});
        let values = json!({"tensor": "v", "shape": [4], "dtype": "float32"});
        let coo = json!({"sparse": "coo", "shape": [3, 4], "dtype": "float32", "dense_dim": 0,
            "coalesced": false, "indices": index, "values": values, "requires_grad": true});
        let read = Operand::read(&coo).unwrap();
        assert!(read.requires_grad() && read.layout() == "coo");
        assert_eq!(read.told(), "coo float32[3, 4]");
        assert!(Operand::is_tensor(&coo) && Operand::is_tensor(&values));
        assert!(!Operand::is_tensor(&json!({"sparse": true})));
        assert_eq!(Operand::read(&values).unwrap().layout(), "strided");
        let mut wrong = coo.clone();
        wrong["sparse"] = json!("dok");
        assert!(Operand::read(&wrong).is_err());
        let mut wrong = coo;
        wrong["coalesced"] = Json::Null;
        assert!(Operand::read(&wrong).is_err());
    }
}
