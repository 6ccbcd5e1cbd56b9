// Package options is imported for what it registers, which nobody looks up.
package options
