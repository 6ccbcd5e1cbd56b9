#include "textflag.h"

// The stack's frames are a list: a frame pointer points to the caller's frame pointer,
// beside which lies the return address. A pointer that does not lead up by less than 1 MiB
// ends the list.

// func returnPCs(pcs *stack)
TEXT ·returnPCs(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ pcs+0(FP), DI
	MOVQ BP, SI
	MOVQ $10, CX
next:
	TESTQ SI, SI
	JEQ  done
	MOVQ 8(SI), AX
	MOVQ AX, (DI)
	ADDQ $8, DI
	MOVQ (SI), DX
	MOVQ DX, BX
	SUBQ SI, BX
	JLS  done
	CMPQ BX, $0x100000
	JHI  done
	MOVQ DX, SI
	DECQ CX
	JNE  next
done:
	RET
