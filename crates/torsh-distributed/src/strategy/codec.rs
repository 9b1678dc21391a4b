//! Values of checkpoints as bytes, to send them.

use torsh_serialize::{Dict, Value};
use torsh_tensor::{DType, Result, Tensor, TorshError};

/// How deep containers may lie in each other.
const DEEPEST: usize = 128;

/// The bytes of a value: a letter for its kind, then what belongs to it.
pub(super) fn encode(value: &Value) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    write(value, &mut out)?;
    Ok(out)
}

fn number(n: usize, out: &mut Vec<u8>) {
    out.extend((n as u64).to_le_bytes());
}

fn bytes(b: &[u8], out: &mut Vec<u8>) {
    number(b.len(), out);
    out.extend(b);
}

fn all(kind: u8, values: &[Value], out: &mut Vec<u8>) -> Result<()> {
    out.push(kind);
    number(values.len(), out);
    values.iter().try_for_each(|v| write(v, out))
}

fn write(value: &Value, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Value::None => out.push(b'n'),
        Value::Bool(v) => out.extend([b'b', u8::from(*v)]),
        Value::Int(v) => {
            out.push(b'i');
            out.extend(v.to_le_bytes());
        }
        Value::Float(v) => {
            out.push(b'f');
            out.extend(v.to_le_bytes());
        }
        Value::Str(v) => {
            out.push(b's');
            bytes(v.as_bytes(), out);
        }
        Value::Bytes(v) => {
            out.push(b'y');
            bytes(v, out);
        }
        Value::List(v) => all(b'l', v, out)?,
        Value::Tuple(v) => all(b't', v, out)?,
        Value::Dict(d) => {
            out.push(b'd');
            number(d.len(), out);
            for (key, v) in d.iter() {
                write(key, out)?;
                write(v, out)?;
            }
        }
        Value::Tensor(t) => {
            out.push(b'T');
            bytes(t.dtype().name().as_bytes(), out);
            number(t.ndim(), out);
            t.dims().iter().for_each(|&n| number(n, out));
            bytes(&t.to_bytes()?, out);
        }
        other => {
            return Err(TorshError::invalid(
                "Strategy",
                format!("a state with {other:?}, which ranks cannot send to one another"),
            ));
        }
    }
    Ok(())
}

/// The value of what [`encode`] gave.
pub(super) fn decode(bytes: &[u8]) -> Result<Value> {
    let mut reader = Reader(bytes);
    let value = reader.value(0)?;
    match reader.0 {
        [] => Ok(value),
        rest => Err(broken(&format!("{} bytes too many", rest.len()))),
    }
}

#[cold]
fn broken(why: &str) -> TorshError {
    TorshError::format("Strategy", format!("a state that another rank sent: {why}"))
        .with_hint("are all ranks the same program?")
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(n)
            .ok_or_else(|| broken("it is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn eight(&mut self) -> Result<[u8; 8]> {
        self.take(8)?
            .try_into()
            .map_err(|_| broken("it is cut off"))
    }

    /// A number of things, each of at least one byte.
    fn count(&mut self) -> Result<usize> {
        let n = u64::from_le_bytes(self.eight()?) as usize;
        match n <= self.0.len() {
            true => Ok(n),
            false => Err(broken("it is cut off")),
        }
    }

    fn text(&mut self) -> Result<&'a str> {
        let n = self.count()?;
        std::str::from_utf8(self.take(n)?).map_err(|_| broken("a text is not UTF-8"))
    }

    fn values(&mut self, depth: usize) -> Result<Vec<Value>> {
        let n = self.count()?;
        (0..n).map(|_| self.value(depth)).collect()
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > DEEPEST {
            return Err(broken("it is nested too deep"));
        }
        let deeper = depth + 1;
        Ok(match self.take(1)? {
            b"n" => Value::None,
            b"b" => Value::Bool(self.take(1)? != [0]),
            b"i" => Value::Int(i64::from_le_bytes(self.eight()?)),
            b"f" => Value::Float(f64::from_le_bytes(self.eight()?)),
            b"s" => Value::Str(self.text()?.to_string()),
            b"y" => {
                let n = self.count()?;
                Value::Bytes(self.take(n)?.to_vec())
            }
            b"l" => Value::List(self.values(deeper)?),
            b"t" => Value::Tuple(self.values(deeper)?),
            b"d" => {
                let mut dict = Dict::new();
                for _ in 0..self.count()? {
                    let key = self.value(deeper)?;
                    dict.insert(key, self.value(deeper)?)?;
                }
                Value::Dict(dict)
            }
            b"T" => {
                let name = self.text()?;
                let dtype = DType::ALL.iter().find(|d| d.name() == name);
                let dtype = *dtype.ok_or_else(|| broken("a tensor of an unknown dtype"))?;
                let ndim = u64::from_le_bytes(self.eight()?);
                let mut shape = Vec::new();
                for _ in 0..ndim.min(64) {
                    shape.push(u64::from_le_bytes(self.eight()?) as usize);
                }
                let n = self.count()?;
                Value::Tensor(Tensor::from_bytes(self.take(n)?, dtype, shape)?)
            }
            _ => return Err(broken("a value of an unknown kind")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() -> Result<()> {
        let tensor = Tensor::from_data(&[1.5f32, -2.0, f32::MAX], [3, 1])?;
        let value = Value::from([
            ("none", Value::None),
            ("flag", Value::Bool(true)),
            ("count", Value::Int(-7)),
            ("share", Value::Float(0.1)),
            ("name", Value::Str("ä".into())),
            ("bytes", Value::Bytes(vec![0, 255])),
            (
                "list",
                Value::List(vec![Value::Tuple(vec![]), Value::Int(1)]),
            ),
            ("tensor", Value::Tensor(tensor)),
            ("empty", Value::Tensor(Tensor::from_data::<i64>(&[], [0])?)),
        ]);
        let bytes = encode(&value)?;
        assert_eq!(decode(&bytes)?, value);
        // Whatever is cut off is an error.
        for n in 0..bytes.len() {
            assert!(decode(&bytes[..n]).is_err(), "{n}");
        }
        assert!(decode(&[&bytes[..], b"x"].concat()).is_err());
        Ok(())
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        let e = encode(&Value::Size(vec![1])).unwrap_err().to_string();
        assert!(e.contains("Size") && e.contains("cannot send"), "{e}");
    }
}
