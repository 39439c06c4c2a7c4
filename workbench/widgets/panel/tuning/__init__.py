"""What a person moves in a panel: a control for each live field, advice with a button, and the way back."""
