// Package annotations is imported for what it registers, which nobody looks up.
package annotations
