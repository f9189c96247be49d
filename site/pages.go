package site

import "iter"

// AllPages returns the items of all pages of a list. read returns the page at a cursor, and the cursor of the next one,
// empty at the end. The cursor of the first page is empty. The sequence ends with the first error.
func AllPages[T any](read func(cursor string) (page []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor, isLast := "", false; !isLast; isLast = cursor == "" {
			page, next, err := read(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
			cursor = next
		}
	}
}
