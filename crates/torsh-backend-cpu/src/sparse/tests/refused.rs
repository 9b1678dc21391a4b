//! What kernels refuse, they refuse with any number of threads, and with the same words.

use std::mem::MaybeUninit;

use torsh_core::{Result, TorshError};

use super::super::*;
use super::products::with_threads;
use super::read;

/// The error of a call with one, two and three threads.
fn refused<T>(f: impl Fn() -> Result<T>) -> Result<String> {
    with_threads(|| match f() {
        Ok(_) => Err(TorshError::invalid("", "it is not refused")),
        Err(e) => Ok(e.to_string()),
    })
}

/// Rows of the left matrix: enough that they are shared out.
const ROWS: usize = 20_000;

/// Room for pointers and elements of a product, filled with `9`.
type Room = (
    Vec<MaybeUninit<i64>>,
    Vec<MaybeUninit<i64>>,
    Vec<MaybeUninit<f32>>,
);

fn room(elements: usize) -> Room {
    let index = |n: usize| vec![MaybeUninit::new(9); n];
    let values = vec![MaybeUninit::new(9.0); elements];
    (index(ROWS + 1), index(elements), values)
}

#[torsh_macros::unit_test]
fn too_little_room_for_a_row_is_an_error() -> Result<()> {
    // A row of the product is one of ten rows, of four elements each.
    let pointers: Vec<i64> = (0..=ROWS as i64).collect();
    let columns: Vec<i64> = (0..ROWS as i64).map(|i| i % 10).collect();
    let values = vec![1.0f32; ROWS];
    let a = Rows::new(&pointers, &columns, &values, None, 10)?;
    let starts: Vec<i64> = (0..=10).map(|k| 4 * k).collect();
    let others: Vec<i64> = (0..40).collect();
    let halves = vec![0.5f32; 40];
    let b = Rows::new(&starts, &others, &halves, None, 40)?;
    let mut bounds = vec![0; ROWS + 1];
    product_bounds((&pointers, &columns), (&starts, &others), 40, &mut bounds)?;
    let every_fourth: Vec<i64> = (0..=ROWS as i64).map(|i| 4 * i).collect();
    assert_eq!(bounds, every_fourth);
    // All rows together have as much room as they need.
    for (short, long) in [(0, ROWS - 1), (ROWS - 1, 0), (ROWS / 2, ROWS / 2 + 1)] {
        let mut wrong = vec![0i64];
        for i in 0..ROWS as i64 {
            let n = 4 - i64::from(i == short as i64) + i64::from(i == long as i64);
            wrong.push(wrong[i as usize] + n);
        }
        let said = refused(|| {
            let (mut p, mut c, mut v) = room(4 * ROWS);
            let done = sparse_product(a, b, &wrong, &mut p, &mut c, &mut v);
            assert!(read(p).iter().chain(&read(c)).all(|i| *i == 9));
            assert!(read(v).iter().all(|v| *v == 9.0));
            done
        })?;
        let wanted = format!("row {short} of the product may have 4 elements");
        assert!(
            said.contains(&wanted) && said.contains("room for 3"),
            "{said}"
        );
    }
    // More room than it takes.
    let wide: Vec<i64> = (0..=ROWS as i64).map(|i| 5 * i).collect();
    let (p, c, v) = with_threads(|| {
        let (mut p, mut c, mut v) = room(5 * ROWS);
        sparse_product(a, b, &wide, &mut p, &mut c, &mut v)?;
        Ok((read(p), read(c), read(v)))
    })?;
    assert_eq!(p, bounds);
    let all: Vec<i64> = columns
        .iter()
        .flat_map(|k| 4 * k..4 * k + 4)
        .chain(std::iter::repeat_n(0, ROWS))
        .collect();
    assert_eq!(c, all);
    let (own, rest) = v.split_at(4 * ROWS);
    assert!(own.iter().all(|v| *v == 0.5) && rest.iter().all(|v| *v == 0.0));
    Ok(())
}

/// A matrix of 8 columns with one element.
fn of_one(column: &[i64; 1]) -> Result<Rows<'_, f32, i64>> {
    Rows::new(&[0, 1], column, &[1.0], None, 8)
}

#[torsh_macros::unit_test]
fn bad_columns_of_sparse_factors_are_named_alike() -> Result<()> {
    let pointers: Vec<i64> = (0..=ROWS as i64).collect();
    let values = vec![1.0f32; ROWS];
    let mut columns = vec![0i64; ROWS];
    let (good, bad) = ([7i64], [8i64]);
    let multiplied = |columns: &[i64], column: &[i64; 1]| -> Result<()> {
        let a = Rows::new(&pointers, columns, &values, None, 1)?;
        let (mut p, mut c, mut v) = room(ROWS);
        sparse_product(a, of_one(column)?, &pointers, &mut p, &mut c, &mut v)
    };
    let at_places = |columns: &[i64], column: &[i64; 1]| -> Result<()> {
        let a = Rows::new(&pointers, columns, &values, None, 1)?;
        let places = vec![7i64; ROWS];
        let mut out = vec![MaybeUninit::new(9.0f32); ROWS];
        masked_product(a, of_one(column)?, (&pointers, &places), &mut out)
    };
    multiplied(&columns, &good)?;
    at_places(&columns, &good)?;
    let of_b = "column index 8 of stored element 0 is out of range for 8";
    let said = refused(|| multiplied(&columns, &bad))?;
    assert!(said.contains(of_b), "{said}");
    let said = refused(|| at_places(&columns, &bad))?;
    assert!(said.contains(of_b), "{said}");
    // The last row has a column that is not there, and so has each other.
    let last = ROWS - 1;
    columns[last] = -2;
    let of_a = format!("column index -2 of stored element {last} is out of range for 1");
    let said = refused(|| multiplied(&columns, &good))?;
    assert!(said.contains(&of_a), "{said}");
    let said = refused(|| at_places(&columns, &good))?;
    assert!(said.contains(&of_a), "{said}");
    let said = refused(|| at_places(&columns, &bad))?;
    assert!(said.contains(of_b), "{said}");
    Ok(())
}

#[torsh_macros::unit_test]
fn bad_coordinates_are_named_alike() -> Result<()> {
    let n = 60_000usize;
    let mut indices: Vec<i64> = (0..2 * n as i64).map(|i| i % 200).collect();
    // The first place is bad in one dimension, the last in the other.
    (indices[n], indices[n - 1]) = (200, -1);
    let said = refused(|| {
        let (mut order, mut starts) = (vec![0; n], vec![0; n + 1]);
        sort_indices(&indices, &[300, 200], &mut order, &mut starts)
    })?;
    let wanted = "index -1 of stored element 59999 is out of range for dimension 0 with size 300";
    assert!(said.contains(wanted), "{said}");
    let values = vec![1.0f32; n];
    let starts: Vec<i64> = (0..=n as i64).collect();
    let mut order: Vec<i64> = (0..n as i64).collect();
    (order[100], order[n - 100]) = (-5, -7);
    let said = refused(|| segment_sums(&values, 1, &order, &starts, &mut vec![0.0; n]))?;
    assert!(said.contains("value -5 is out of range"), "{said}");
    Ok(())
}

#[torsh_macros::unit_test]
fn positions_out_of_order_are_errors() -> Result<()> {
    let n = 40_000usize;
    let list: Vec<i64> = (0..n as i64).collect();
    let (x, y) = (vec![1.0f32; n], vec![0.5f32; n]);
    let shape = [n];
    let places = Coordinates::new(&list, n, &shape)?;
    let merged = |at: &[i64]| -> Result<(Vec<i64>, Vec<f32>)> {
        let (mut indices, mut out) = (vec![0; n], vec![0.0; n]);
        merge_places(places, places, at, (&x, &y), 1, &mut indices, &mut out)?;
        Ok((indices, out))
    };
    let mut at = vec![0; n];
    find_places(places, places, &mut at)?;
    assert_eq!(at, list);
    let (indices, out) = with_threads(|| merged(&at))?;
    assert!(indices == list && out.iter().all(|v| *v == 1.5));
    let most = n as i64;
    for (e, position) in [
        (0, 1),
        (1, 0),
        (n / 2, 0),
        (n / 2, most - 1),
        (n - 1, most),
        (n - 1, i64::MAX),
        (n - 2, most - 1),
    ] {
        let mut wrong = at.clone();
        wrong[e] = position;
        let said = refused(|| merged(&wrong))?;
        assert!(said.contains("positions are none of places"), "{said}");
    }
    // A place between others that are there; it counts as one more.
    let mut wrong = at.clone();
    wrong[n / 2] = !3;
    let said = refused(|| {
        let (mut indices, mut out) = (vec![0; n + 1], vec![0.0; n + 1]);
        merge_places(places, places, &wrong, (&x, &y), 1, &mut indices, &mut out)
    })?;
    assert!(said.contains("positions are none of places"), "{said}");
    Ok(())
}

#[torsh_macros::unit_test]
fn places_out_of_order_are_named_alike() -> Result<()> {
    let (n, count) = (100_000usize, 200_000usize);
    let places: Vec<i64> = (0..n as i64).map(|e| 2 * e).collect();
    let values = vec![1.0f32; n];
    let filled = |places: &[i64]| -> Result<Vec<f32>> {
        let mut out = vec![MaybeUninit::new(9.0); count];
        fill_places(places, &values, 1, &mut out)?;
        Ok(read(out))
    };
    let out = with_threads(|| filled(&places))?;
    assert!(out.chunks_exact(2).all(|pair| pair == [1.0, 0.0]));
    let mut swapped = places.clone();
    swapped.swap(10, 90_000);
    let said = refused(|| filled(&swapped))?;
    assert!(said.contains("do not ascend: 22 is out of order"), "{said}");
    let mut far = places.clone();
    (far[n / 2], far[n / 2 + 1]) = (-4, count as i64);
    let said = refused(|| filled(&far))?;
    assert!(
        said.contains("column index -4 of stored element 50000"),
        "{said}"
    );
    Ok(())
}
